"""Check every TraceForge file under some paths: snapshots, traces, recordings, packs and more."""
