"""Found by a Python that `traceforge run` has started, before anything of the application runs.

It lets the hook in, removes its own folder from the path, and then runs the `sitecustomize` that would have been
found without it. It must be valid in every Python that could find it, also in those that are too old for the hook.
"""

import os
import sys


def _enter():
    if sys.version_info < (3, 9) or not os.environ.get("TRACEFORGE_RUN") or "_traceforge_hook" in sys.modules:
        return
    try:
        package = type(sys)("_traceforge_hook")
        package.__path__ = [os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "hook")]
        sys.modules["_traceforge_hook"] = package
        from _traceforge_hook.bootstrap import open_door

        open_door(os.environ["TRACEFORGE_RUN"])
    except Exception:  # The application is not worse off for having been entered; the parent misses our hello.
        if '"plays": true' in os.environ["TRACEFORGE_RUN"]:  # But in a replay, nobody may go on who was not entered.
            sys.stderr.write("traceforge: a replay could not enter this Python: %r\n" % (sys.exc_info()[1],))
            sys.stderr.flush()
            os._exit(3)
        if os.environ.get("TRACEFORGE_DEBUG"):
            raise


def _leave_path():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if not path or os.path.abspath(path) != here]


def _run_next():
    if sys.version_info < (3, 4):
        import imp

        try:
            found = imp.find_module("sitecustomize", sys.path)
        except ImportError:
            return
        imp.load_module("sitecustomize", *found)
        return
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        from importlib.util import module_from_spec

        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_leave_path()
_enter()
_run_next()
