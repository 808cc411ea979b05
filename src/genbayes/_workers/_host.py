"""A process of the simulator's own, which may hang, crash or be killed: run as a script.

It is the first of a process group, and so is whatever it starts. A guard in the same group waits
for the end of the process that it works for, and then kills the group.
"""

import os
import subprocess
import sys
from multiprocessing.connection import Connection

# independent of this process, which may be too busy to notice anything
GUARD = "import os,signal,sys; os.read(int(sys.argv[1]), 1); os.killpg(0, signal.SIGKILL)"


def main(pipe_number: int, lifeline: int) -> None:
    """Draw what the other end of the pipe asks for, until there is no other end."""
    guard = [sys.executable, "-S", "-E", "-P", "-c", GUARD, str(lifeline)]
    subprocess.Popen(guard, pass_fds=[lifeline], stdin=subprocess.DEVNULL)
    os.close(lifeline)
    pipe = Connection(pipe_number)
    try:
        sys.path[:] = pipe.recv()
        packed = pipe.recv_bytes()
    except EOFError:
        return
    try:
        import cloudpickle

        from genbayes._workers._draw import Failed, draw_one, draw_rows

        fn = cloudpickle.loads(packed)
    except Exception as error:
        pipe.send(f"{type(error).__name__}: {error}")
        return
    pipe.send("")
    while True:
        try:
            thetas, seeds, dtype, together = pipe.recv()
        except EOFError:
            return
        if together:
            pipe.send(draw_rows(fn, thetas, seeds, dtype))
            continue
        for theta, seed in zip(thetas, seeds, strict=True):
            row = draw_one(fn, theta, seed, dtype)
            pipe.send(row)
            if isinstance(row, Failed):
                break


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
