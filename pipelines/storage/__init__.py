"""Output folders, object stores, Parquet files, archives and manifests; no stage is known here."""
