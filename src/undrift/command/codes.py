"""What exit codes mean."""

from ..errors import HostLostError

OK = 0
FAILED = 1
BAD_INPUT = 2
DIVERGED = 3
BAD_CHECKPOINT = 4
MISSING_DATA = 5
CLAIM_FAILED = 6
STORAGE = 7
HOST_LOST = HostLostError.EXIT_CODE
INTERRUPTED = 130

EXIT_CODES = {
    OK: "finished",
    FAILED: "a fault of undrift itself (UNDRIFT_DEBUG=1 in the environment shows where)",
    BAD_INPUT: "bad input, nothing was run or overwritten",
    DIVERGED: "the loss stopped being finite",
    BAD_CHECKPOINT: "a checkpoint is corrupt or of another run",
    MISSING_DATA: "data are not here, or could not be downloaded",
    CLAIM_FAILED: "a claim does not hold (reproduce --strict), or a replay differs",
    STORAGE: "a file cannot be written or read (disk full, no rights, or the directory belongs to another process)",
    HOST_LOST: "another process of a run on several hosts is gone, the run can be resumed",
    INTERRUPTED: "interrupted, the run can be resumed",
}
