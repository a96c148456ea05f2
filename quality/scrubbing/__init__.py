"""Parts of `quality.scrub`: the finders, the replacements, and their application to Arrow columns."""
