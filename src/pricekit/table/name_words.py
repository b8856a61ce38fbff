"""Words in the names of columns, in many languages: what a column holds, and what it is left out for."""

from __future__ import annotations

import re

from pricekit.text.patterns import lazy_pattern


def words_of(name: str) -> list[str]:
    """Split the name of a column into lower-case words.

    Example:
        >>> words_of("ProductName"), words_of("host_id"), words_of("Số lượng")
        (['product', 'name'], ['host', 'id'], ['số', 'lượng'])
    """
    spaced = re.sub(r"(?<=[^\W\d_A-Z])(?=[A-Z])", " ", name)
    return [word for word in re.split(r"[\W_]+", spaced.casefold()) if word]


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_PRICE_WORDS = _set(
    "price prices pris priser ár ára hinta giá gia msrp mrp rrp uvp srp amount amounts amt cost costs costo "
    "coste custo cout coût couts coûts kosten koszt cena cenu ceny ceno cenă cene cijena cijene kaina cmimi çmimi pret "
    "preț preţ verð qiymət narx presyo bei betrag importe tarif tarifa tariffa tariff fee fees fare fares pay "
    "rent rents rental salary salaries wage wages payroll stipend miete kaltmiete warmmiete nettomiete bruttomiete "
    "mietpreis loyer loyers czynsz alquiler renta aluguel aluguer arriendo affitto canone huur huurprijs hyra leje "
    "husleje vuokra najem nájem nájemné chirie kira kirası аренда аренды оренда salario salário stipendio gehalt "
    "jahresgehalt lohn salaire salaires remuneration rémunération sueldo lön palkka maaş maas gaji lương luong "
    "wynagrodzenie pensja plat mzda fizetés plata salariu зарплата оклад цена цены цене ціна ціни кошт баға "
    "үнэ prix "
)
_PRICE_PARTS = lazy_pattern(
    r"price|preis|precio|preço|preco|prezzo|prijs|fiyat|harga|стоимость|вартість|価格|値段|金額|料金|价格|價格|售价|单价|單價|租金"
    r"|家賃|賃料|給料|給与|年収|月給|薪资|薪水|工资|가격|요금|월세|전세|보증금|연봉|급여|ราคา|ค่าเช่า|เงินเดือน|سعر|ثمن|إيجار|راتب|מחיר|שכירות|משכורת"
    r"|τιμή|τιμη|ενοίκιο|μισθός|តម្លៃ|ລາຄາ|قیمت|قيمة|գին|ფასი|कीमत|मूल्य|किराया|वेतन|দাম|মূল্য|விலை|ధర"
)


def names_price(name: str) -> bool:
    """Return whether the name of a column is that of a price: also of a rent, a fee or a salary, in many languages.

    Example:
        >>> [names_price(name) for name in ("Unit Price", "salary_from", "Kaltmiete", "currentModel", "costume")]
        [True, True, True, False, False]
    """
    return not _PRICE_WORDS.isdisjoint(words_of(name)) or bool(_PRICE_PARTS.search(name.casefold()))


OTHER_PRICES = _set(
    "old was list original orig regular reg before previous market retail recommended shipping delivery freight tax "
    "vat deposit fee unit per discount discounted saving savings insurance max maximum to upper high highest bis hasta "
    "alt alter alte ancien anterior antes barré viejo versand lieferung livraison envío frete porto rrp msrp mrp uvp "
    "m2 sqm sqft kg cũ gốc старая доставка"
)
"""Words in the names of prices other than that of the product: a column without them is preferred."""

TEXT_NAME = lazy_pattern(
    r"title|name|desc|text|content|product|item|about|summary|titel|bezeichnung|beschreibung|artikel|titre|nom\b|libell"
    r"|título|titulo|nombre|descri|titolo|nazwa|opis|назв|наимен|опис|товар"
    r"|商品|品名|名称|名稱|标题|説明|상품|제목|tên|mô tả|ürün|ชื่อ|اسم|שם",
    re.IGNORECASE,
)
ID_NAME = lazy_pattern(
    r"(?i:(^|[^a-z])(id|sku|asin|ean|gtin|upc|isbn|isbn1[03]|mpn|barcode|uid|uuid|guid|nr|no|s\.n|r[eé]f[eé]ren[cz](e|ia|a))\.?$|артикул|код|номер"
    r"|品番)|[a-z]I[dD]$"
)

TITLE = (
    _set(
        "title titles titel titre título titulo titolo tytuł tytul titul otsikko rubrik başlık baslik judul "
    ),
    _set(
        "name nom nombre nome nazwa naam navn namn nimi název nazev názov nazov denumire ime naziv isim adı adi "
        "nama tên bezeichnung artikelbezeichnung produktbezeichnung artikelname produktname productname "
        "producttitle itemname libelle libellé intitulé denominazione denominación descrizione_breve headline "
        "produktnavn varenavn produktnamn tuotenimi megnevezés megnevezes "
    ),
    _set(
        "product products item items article artikel articulo artículo articolo produkt produit producto "
        "produto prodotto ürün urun barang sản termék termek tuote vare vara wine book game "
    ),
    _set("model modell modelo modele modèle modello designation désignation variant trim "),
)
"""Words that name a title, from the surest to the least sure."""

TITLE_SIGNS = lazy_pattern(
    "назван|наимен|назва|заголов|товар|品名|商品名|名称|名稱|标题|標題|タイトル|製品名|상품명|제목|이름|ชื่อ|اسم|عنوان|שם|כותרת"
    "|όνομα|τίτλος|नाम"
)

OF_OTHERS = _set(
    "brand brands marke marque marca marka merk category categories kategorie catégorie categoria categoría "
    "kategoria type typ tipo tür class group department section host seller vendor shop store merchant user "
    "owner dealer author artist taster reviewer customer agent winery region province city country state "
    "neighbourhood neighborhood color colour size file image picture photo first last domain company "
    "manufacturer publisher condition status id sku code number url link date price unit currency "
    "verkäufer hersteller vendeur fabricante vendedor händler farbe couleur "
)
"""Words that say that a name, a type or a model is of something else than the product."""

DESCRIPTIONS = _set(
    "description descriptions desc details detail summary text content about overview body comment comments "
    "beschreibung descripción descripcion descrição descricao descrizione opis beskrivelse beskrivning popis "
    "açıklama kuvaus leírás omschrijving features specs specification specifications highlights note notes "
)
"""Words that name a description."""

RECORDED = lazy_pattern(
    r"crawl|scrap|creat|updat|modif|insert|upload|fetch|import|export|timestamp"
    r"|time ?stamp|last|post(ed|ing)|listed|added"
    r"|review|expir|expire|seen|accessed|retriev|collected|download|erstellt|angelegt"
    r"|geändert|aktualis|abruf|einstell"
    r"|créé|créat|creaci|creac|criad|criaç|mise à jour|ajout|actualiz|atualiz|aggiorn"
    r"|inserim|dodan|aktualiz|utworz|создан"
    r"|обновл|добавл|публикации объяв|更新|作成|登録|创建|抓取|采集|上架|등록|수정|tạo|cập nhật|oluştur|güncel",
    re.IGNORECASE,
)
"""Dates of record keeping: when somebody created, changed or read the row."""

COUNTER = lazy_pattern(
    r"views\b|viewed|view ?count|visits?\b|visitors|clicks?\b|impressions|likes?\b"
    r"|favou?rit|wish|watch(ers|ing)|sold\b"
    r"|sales\b|orders\b|purchas|downloads|bids?\b|\bin stock|stock\b|inventory|availab"
    r"|num.* ratings?\b|ratings\b"
    r"|ratings? (count|total|number|num)|(number|num|count|total|no) (of )?ratings?"
    r"|reviews?\b.*(count|per|number|num)"
    r"|reviews\b|votes|comments|followers|shares\b|popularity|bestseller|best seller"
    r"|listings count|days (on|listed)"
    r"|aufrufe|ansicht|verkauft|verkäufe|bewertungen|lager|verfügbar|vues\b|ventes"
    r"|\bavis\b|vendu|disponib|ventas|vistas"
    r"|visitas|reseñas|valoraciones|vendid|vendas|avaliaç|visualiz|recensioni|vendite"
    r"|visite|venduti|giacenza"
    r"|просмотр|продаж|отзыв|остат|налич|перегляд|відгук|浏览|瀏覽|销量|銷量|评论数|評論數|库存|庫存|評価数|レビュー数|閲覧|販売数|在庫"
    r"|조회|판매량|리뷰|재고|lượt|đã bán|đánh giá|tồn kho|satış|satıl|yorum|görüntü|stok|sprzeda"
    r"|wyświetl|opinii|dostępn"
    r"|terjual|ulasan|dilihat|verkocht|bekeken|voorraad|sålda|visning|antal bud|solgt"
    r"|myyty|prodáno|skladem|eladott"
    r"|\bfans\b|subscri|abonn|\bsuscri|enrol|installs\b|\bplays\b|streams\b|backers|popular|trending|подписчик|粉丝|粉絲|구독"
    r"|(num|number|no|count|total)( of)? (students|users|members|players|learners|buyers|customers|watchers)"
    r"|(students|learners|members|buyers|customers) (count|number|total|num|enrolled)",
    re.IGNORECASE,
)
"""Counts and states that arise after the price was set."""

DISCOUNT = lazy_pattern(
    r"discount|\brabat|remise\b|réduction|reduction|descuento|desconto|sconto|korting|скидк|знижк|割引|折扣|할인"
    r"|giảm giá|diskon|indirim|zniżk|kedvezmény|sleva|alennus|\b(percent|pct) off\b"
    r"|\bmarkdown\b|\byou save\b|savings?\b",
    re.IGNORECASE,
)
"""Reductions of a price."""

NOT_A_COUNTER = lazy_pattern(
    r"scor|point|star|averag|\bavg|mean\b|punkt|note\b|rating$|review text"
    r"|\bby\b|year|\bdate|type|channel|region|method|purpose|polic",
    re.IGNORECASE,
)

INDEX = lazy_pattern(
    r"^(unnamed:? ?\d+|column ?1|index|level_0|idx|row|row ?(id|nr|no|num|number)"
    r"|rownames|#|№|nº|n°|lfd\.? ?nr\.?|stt"
    r"|序号|编号|連番|番号|번호|п/п|№ ?п/п)?[_.]?$",
    re.IGNORECASE,
)
"""Names of a running number."""

PARTY = _set(
    "host seller user owner vendor shop store customer merchant dealer agent member reviewer profile account "
    "buyer client author verkäufer vendeur vendedor "
)

ENTITY = _set(
    "product item listing sku asin train test row record order offer ad article artikel post sample entry "
    "goods produkt producto scrape "
)

CODES = _set("isbn isbn10 isbn13 ean gtin upc asin uuid guid barcode vin sku ")

MEASURES = _set(
    "area size weight length width height depth volume capacity surface power displacement engine mileage "
    "odometer distance carat carats karat tank storage memory ram pages year age rooms bedrooms bathrooms floor "
    "floors seats doors quantity qty pieces count number points rating score wheelbase torque speed lot "
    "fläche wohnfläche größe gewicht länge breite höhe tiefe volumen hubraum leistung kilometerstand baujahr zimmer "
    "poids longueur largeur hauteur profondeur puissance cylindrée kilométrage pièces chambres superficie "
    "peso longitud ancho altura potencia metros kilómetros año habitaciones área comprimento largura "
    "oppervlakte powierzchnia waga długość przebieg pojemność moc площадь вес длина ширина высота объем "
    "мощность пробег год 面积 面積 重量 容量 면적 중량 용량 tích"
)
"""Words that name a measure of a product."""
