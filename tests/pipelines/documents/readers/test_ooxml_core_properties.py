"""What an Office file says of itself."""

from __future__ import annotations

import io
import zipfile

from pipelines.documents.readers.ooxml import Package, core_properties

RELATIONS = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="r" Type="http://x/core-properties" Target="docProps/core.xml"/></Relationships>'
)
PROPERTIES = (
    '<p:coreProperties xmlns:p="http://schemas.openxmlformats.org/package/2006/metadata/core-properties">'
    '<p:keywords>budget<p:value xml:lang="en">private</p:value><p:value xml:lang="de">Haushalt</p:value>'
    "</p:keywords></p:coreProperties>"
)


def test_the_keywords_of_each_language_are_tags():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("_rels/.rels", RELATIONS)
        archive.writestr("docProps/core.xml", PROPERTIES)
    assert core_properties(Package("Plan.docx", file.getvalue())) == (
        "",
        {"tags": ["budget", "private", "Haushalt"]},
    )
