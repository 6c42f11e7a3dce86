"""Results as small Parquet files, and the pages of the documentation that are written from them."""
