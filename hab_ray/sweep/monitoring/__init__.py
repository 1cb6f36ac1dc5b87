"""What a run says of itself: progress, log, failed rows."""
