"""The texts of requests: templates or imported wording, filled from rubrics."""
