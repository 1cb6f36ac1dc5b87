"""The words of requests: templates or imported wording, filled from rubrics."""
