"""Writes contract.docx and contract.pdf, the documents of these tests. Needs python-docx and reportlab.

    python make.py
"""

import os

import docx
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.lib.units import cm
from reportlab.pdfgen import canvas
from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate, Table

HERE = os.path.dirname(os.path.abspath(__file__))
TITLE = "Supply Agreement"
PARTIES = (
    'This agreement is made between <b>Nordwind Müller GmbH</b> ("Supplier") and Hafen & Söhne AG ("Buyer") on 3 March 2021. '
    "The Supplier delivers the goods of Annex A within thirty days of an order, and the Buyer pays each invoice within sixty days."
)
LAW = "This agreement is governed by the laws of Switzerland."


def plain(text):
    return text.replace("<b>", "").replace("</b>", "")


def write_docx(path):
    document = docx.Document()
    document.core_properties.author = "leyden"
    document.add_heading(TITLE, 1)
    document.add_paragraph(plain(PARTIES))
    table = document.add_table(rows=2, cols=2)
    for row, cells in zip(table.rows, [("Goods", "Price"), ("Rope", "€ 5")]):
        for cell, text in zip(row.cells, cells):
            cell.text = text
    document.add_paragraph(LAW)
    document.save(path)


def write_pdf(path):
    styles = getSampleStyleSheet()
    story = [
        Paragraph(TITLE, styles["Title"]),
        Paragraph(PARTIES.replace("&", "&amp;"), styles["Normal"]),
        Table([["Goods", "Price"], ["Rope", "€ 5"]], colWidths=4 * cm),
        PageBreak(),
        Paragraph(LAW, styles["Normal"]),
    ]
    SimpleDocTemplate(path, pagesize=A4, author="leyden", invariant=1).build(story)


def write_scan(path):
    page = canvas.Canvas(path, pagesize=A4, invariant=1)
    page.rect(2 * cm, 2 * cm, 10 * cm, 10 * cm, fill=1)
    page.save()


write_docx(os.path.join(HERE, "contract.docx"))
write_pdf(os.path.join(HERE, "contract.pdf"))
write_scan(os.path.join(HERE, "scan.pdf"))
