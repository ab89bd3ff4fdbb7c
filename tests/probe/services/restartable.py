"""Runs a service so that SIGHUP restarts it: the same process id and port, and nothing of its memory.

Usage: restartable.py STARTED SERVICE ARGUMENT...; the file STARTED is made each time the service starts.
"""

import os
import runpy
import signal
import sys

started, service = sys.argv[1], sys.argv[2]
again = [sys.executable, *sys.argv]
signal.signal(signal.SIGHUP, lambda *_: os.execv(sys.executable, again))
open(started, "w").close()
sys.argv = [service, *sys.argv[3:]]
runpy.run_path(service, run_name="__main__")
