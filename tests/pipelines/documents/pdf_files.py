"""PDF files that no library would write."""

FONT = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"


def written(*objects):
    """Return a PDF of the contents of its objects, numbered from 1; the first one is its catalog."""
    parts, offsets = [b"%PDF-1.7\n"], []
    for number, content in enumerate(objects, 1):
        offsets.append(sum(map(len, parts)))
        parts.append(b"%d 0 obj %s endobj\n" % (number, content))
    start = sum(map(len, parts))
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    trailer = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, start)
    return b"".join([*parts, b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1), table, trailer])


def page_with(contents, font):
    """Return a page whose contents and font are the objects of these numbers; its parent is object 2."""
    form = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents %d 0 R /Resources << /Font << /F1 %d 0 R >> >> >>"
    return form % (contents, font)


def words(text):
    """Return the contents of a page that says something."""
    return stream(b"BT /F1 12 Tf 72 700 Td (%s) Tj ET" % text)


def stream(data, more=b""):
    """Return a stream object with more entries in its dictionary."""
    return b"<< /Length %d %s >> stream\n%s\nendstream" % (len(data), more, data)
