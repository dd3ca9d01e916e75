"""Two clients that disagree, and work at different speeds: where does each method end?

f_1(x) = ½x² − 3x and f_2(x) = x² − 100x, so x* = 103/3. Client 1 takes 50 local steps a round, client 2 takes 30
(FedLin, figure 1).
"""

from __future__ import annotations

import numpy as np

import undrift as ud


def main(rounds: int = 300) -> dict[str, float]:
    """Returns the distance of each method's end from x*."""
    problem = ud.problems.quadratic(A=np.array([[[1.0]], [[2.0]]]), b=np.array([[3.0], [100.0]]))
    distances = {}
    for method in (ud.fedavg(eta=0.01), ud.fedprox(eta=0.01, beta=1.0), ud.fednova(eta=0.01), ud.fedlin(eta=0.1)):
        result = ud.run(method, problem, rounds=rounds, steps=[50, 30])
        distances[method.name] = float(abs(result.x - problem.optimum.x)[0])
        print(
            f"{method.name:8} ends at {result.x[0]:.6f}, {distances[method.name]:.1e} from x* = {problem.optimum.x[0]:.6f}"
        )
    return distances


if __name__ == "__main__":
    main()
