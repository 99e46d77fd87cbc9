"""The first moments of every child: waits to be let through, then becomes the program.

Run as `python -I -S gate.py FD FILE ARGV...`. Between starting a process and telling the guard of it the launcher could
be killed, and nothing would end the child. So the child starts as this gate, which does nothing until the launcher,
having told the guard, writes a byte to FD (one end of a socket pair). If the launcher dies first, the gate sees the end
of file and exits. `exec` keeps process id, session and group, so nothing of the gate is left afterwards.
"""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    """Waits for the byte, then execs; a failure to do so is reported as an errno in decimal on the same socket."""
    fd, file, argv = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    # Closed by a successful exec, which is how the launcher learns of it.
    os.set_inheritable(fd, False)
    if not os.read(fd, 1):
        sys.exit(1)
    # Python ignores these two at its start, and exec would hand that on to a program that doesn't expect it.
    for name in ("SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execv(file, argv)
    except OSError as error:
        os.write(fd, str(error.errno).encode())
        sys.exit(126)


if __name__ == "__main__":
    main()
