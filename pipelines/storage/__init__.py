"""Output folders, object stores, Parquet files, archives and manifests, independent of the stages."""
