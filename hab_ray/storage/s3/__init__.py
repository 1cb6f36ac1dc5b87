"""Folders in S3 buckets, through boto3 alone, and what is kept of them on this node's disk."""
