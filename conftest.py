"""Tests see Ctrl-C as in the foreground, also where the shell that starts them ignores it."""

import signal
import threading

if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)
