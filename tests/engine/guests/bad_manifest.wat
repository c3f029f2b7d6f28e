;; manifest: {"name":"a","version":"0.1.0","grants":[],"schedule":{"interval":"1s"},"color":"red"}
;; Its manifest has a field that there is not.
