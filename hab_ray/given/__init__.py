"""Files that users give: tests, answers, ratings, paraphrases."""
