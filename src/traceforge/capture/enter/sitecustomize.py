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
        import json
        from importlib.util import module_from_spec, spec_from_file_location

        options = json.loads(os.environ["TRACEFORGE_RUN"])
        folder = options["hook"]
        file = os.path.join(folder, "__init__.py")
        spec = spec_from_file_location("_traceforge_hook", file, submodule_search_locations=[folder])
        module = module_from_spec(spec)
        sys.modules["_traceforge_hook"] = module
        spec.loader.exec_module(module)
        from _traceforge_hook.child import enter

        enter(options)
    except Exception:  # The application is not worse off for having been entered; the parent misses our hello.
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
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_leave_path()
_enter()
_run_next()
