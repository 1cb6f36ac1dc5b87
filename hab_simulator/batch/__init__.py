"""The batch half: files and batches on disk, answered line by line, each vendor's REST calls around them."""
