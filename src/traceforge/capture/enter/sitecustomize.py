"""Imported by every Python that `traceforge run` has started, before the application.

It loads the hook, removes its own folder from the path, and then runs the `sitecustomize` that would have been found
without it. It must be valid in every Python that could find it, also in those that are too old for the hook.
"""

import os
import sys

try:
    from importlib.machinery import PathFinder
except ImportError:  # Python 2
    PathFinder = None


def _load_hook():
    if sys.version_info < (3, 9) or not os.environ.get("TRACEFORGE_RUN") or "_traceforge_hook" in sys.modules:
        return
    try:
        package = type(sys)("_traceforge_hook")
        package.__path__ = [os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "hook")]
        sys.modules["_traceforge_hook"] = package
        from _traceforge_hook.bootstrap import bootstrap

        bootstrap(os.environ["TRACEFORGE_RUN"])
    except Exception:  # The application must not suffer from our failure; the parent notices that no hello came.
        if '"plays": true' in os.environ["TRACEFORGE_RUN"]:  # But in a replay, no process may run without the hook.
            reason = ascii(sys.exc_info()[1]).replace("::", ":\\x3a").replace("##", "#\\x23")  # no command of a CI
            sys.stderr.write("traceforge: this Python process could not be instrumented for a replay: %s\n" % reason)
            sys.stderr.flush()
            os._exit(3)
        if os.environ.get("TRACEFORGE_DEBUG"):
            raise


def _leave_path():
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if not path or os.path.abspath(path) != folder]


def _run_next():
    if sys.version_info < (3, 4):
        import imp

        try:
            module = imp.find_module("sitecustomize", sys.path)
        except ImportError:
            return
        imp.load_module("sitecustomize", *module)
        return
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        from importlib.util import module_from_spec

        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_leave_path()
_load_hook()
_run_next()
