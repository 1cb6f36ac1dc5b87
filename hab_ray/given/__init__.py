"""Readers of files that users give: tests, responses, ratings, paraphrases."""
