"""English words that say nothing about a text's subject: not searched for, and no label of a community."""

STOPWORDS = frozenset(
    (
        *("a", "about", "an", "and", "are", "as", "at", "be", "but", "by", "can", "did", "do", "does", "for"),
        *("from", "had", "has", "have", "how", "i", "if", "in", "into", "is", "it", "its", "my", "no", "not"),
        *("of", "on", "or", "our", "so", "that", "the", "their", "them", "then", "there", "these", "they"),
        *("this", "to", "was", "we", "were", "what", "when", "where", "which", "who", "why", "will", "with"),
        *("you", "your"),
    )
)
