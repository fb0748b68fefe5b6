"""A vault with private notes of every kind, each full of words that no other note has.

An answer for an agent must contain none of the words: `leaks(answer)` says which it does.
"""

from __future__ import annotations

import re

CANARY = re.compile(r"kanary\w*", re.IGNORECASE)

DOMAINS = """
garden: {legacy: true, formats: [md, txt, canvas, yaml, csv], privacy: {tags: [Diary], folders: [Drawer]}}
office: {path: office, llm: off}
"""

_SEEN = {
    "Soil.md": "---\ntags: [earth]\naliases: [Ground]\n---\n# Soil\n\nGarden soil and worms. See [[n1]] and [[n2]]"
    " and [[n9]].\n\nThe soil of the river.\n\n- [ ] Turn the soil\n",
    "Worms.md": "---\ntags: [earth]\nauthor: Ada\nkind: essay\n---\n# Worms\n\nWorms love the soil: [[Soil]] and"
    " ![[n3]] and [[Compost]].\n",
    "Beds/Compost.md": "# Compost\n\nCompost feeds garden soil, [[Worms]], [up](../office/n9.md).\n",
    "Beds/Alone.md": "# Alone\n\nA garden note that only a private note links to.\n",
    "Wider.md": "# Wider\n\nThe market price of soil. [[nowhere]] [[n4]]\n",
}


def _private(word: str, *, front: str = "", tags: str = "", text: str = "") -> str:
    """Return a private note about the same things as the others, with a word of its own in every place."""
    front += 'about: ["[[Soil]]", "[[Alone]]"]\n'
    head = f"---\ntitle: Kanary title {word}\naliases: [kanaryalias{word}]\nauthor: kanaryauthor{word}\nkind: kanarykind{word}"
    return (
        f"{head}\ntags: [{tags or 'earth'}, kanarytag{word}/nested]\nstatus: kanarystatus{word}\n{front}---\n"
        f"# Kanary heading {word}\n\nGarden soil and worms, kanarytext{word}.{text} [[Soil]] [[Alone]]"
        f" [[kanarytarget{word}]]\n\n- [ ] Hide the kanarytask{word}\n"
    )


_HIDDEN = {
    "kanaryfolder1/n1.md": _private("one", front="private: true\n"),
    "kanaryfolder2/n2.md": "+++\nprivate = true\n+++\n# Kanary heading two\n\nGarden soil kanarytexttwo [[Soil]] [[Alone]]\n",
    "kanaryfolder3/n3.md": _private("three", text=" [private:: true]"),
    "kanaryfolder4/n4.md": _private("four", tags="private"),
    "kanaryfolder5/n5.md": _private("five", tags="diary/2026"),
    "Private/kanaryfolder6/n6.md": _private("six"),
    "Beds/Drawer/kanaryfolder7/n7.md": _private("seven"),
    "kanaryfolder8/n8.md": "---\nkanary: [\n---\n# Kanary heading eight\n\nGarden soil kanarytexteight [[Soil]]\n",
    "office/kanaryfolder9/n9.md": _private("nine"),
    "kanaryfolder11/n11.yaml": "private: true\nkanarykey: garden soil kanarytexteleven [[Soil]]\ntags: [kanarytageleven]\n",
    "kanaryfolder12/n12.txt": "private:: yes\n\nGarden soil and worms, kanarytexttwelve.\n",
    "Private/kanaryfolder13/n13.canvas": '{"nodes": [{"id": "a", "type": "text", "text": "Garden soil kanarytextthirteen '
    '[[Soil]]", "x": 0, "y": 0, "width": 9, "height": 9}], "edges": []}',
    "Beds/Drawer/kanaryfolder14/n14.csv": "kanaryhead,soil\nkanarytextfourteen,garden soil and worms\n",
    "kanaryfolder10/Kanary stem ten.md": "private:: yes\n\nGarden soil kanarytextten [[Soil]] [[Alone]]\n",
}

NOTES = {"_domains.yaml": DOMAINS, **_SEEN, **_HIDDEN}
SEEN = frozenset(_SEEN)
HIDDEN = frozenset(_HIDDEN)


def leaks(answer: str, asked: str = "") -> list[str]:
    """Return the words of private notes that an answer contains, without those of the question."""
    return sorted(set(CANARY.findall(answer.lower())) - set(CANARY.findall(asked.lower())))
