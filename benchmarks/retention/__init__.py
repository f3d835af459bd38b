"""What the retention report sees and what the extractive writer keeps, measured on planted facts.

``python -m benchmarks.retention`` prints it. Everything is generated from a seed: rules and their opposites
in the languages of ``rule_words.toml``, inventions and paraphrases of equal value in eleven, and facts
planted in long texts.
"""
