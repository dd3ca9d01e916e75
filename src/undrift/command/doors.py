"""What `undrift` says to somebody who has not asked for anything yet."""

DOORS = """undrift: federated optimisation that arrives at the right answer.

  see it        undrift demo --open
                compares the methods on handwritten digits, and shows the page

  your data     undrift advise --problem npz:data.npz
                which method, step size and local steps reach the target at the least cost, and why

  your method   undrift run --method my_method.py:factory --problem quadratic
                twenty lines of Python, simulated as they would be deployed

undrift --help shows all commands, undrift COMMAND --help each of them with examples.
"""
