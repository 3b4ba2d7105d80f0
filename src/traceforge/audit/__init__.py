"""Find every artefact under some paths and check it, whatever its kind."""
