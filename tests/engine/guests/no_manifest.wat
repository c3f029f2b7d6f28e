;; manifest: none
;; Says nothing about itself.
