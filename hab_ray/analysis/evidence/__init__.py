"""What findings and preferences rest on: texts of answers and verdicts, who is whose model, slopes within groups."""
