"""Folders in S3 buckets, accessed with boto3 alone and cached on this node's disk."""
