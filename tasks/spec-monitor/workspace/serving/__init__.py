"""The part of a serving engine that watches speculative decoding and retries what went wrong."""
