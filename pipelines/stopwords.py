"""English stop words, which are neither searched for nor used to label communities."""

STOPWORDS = frozenset(
    (
        *("a", "about", "an", "and", "are", "as", "at", "be", "but", "by", "can", "did", "do", "does", "for"),
        *("from", "had", "has", "have", "how", "i", "if", "in", "into", "is", "it", "its", "my", "no", "not"),
        *("of", "on", "or", "our", "so", "that", "the", "their", "them", "then", "there", "these", "they"),
        *("this", "to", "was", "we", "were", "what", "when", "where", "which", "who", "why", "will", "with"),
        *("you", "your"),
    )
)
