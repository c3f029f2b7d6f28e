;; WIT metadata, but nothing that the world exports.
;; exports: its own
