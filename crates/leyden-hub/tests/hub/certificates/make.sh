#!/bin/sh
# Makes the authority and the server certificate that the tests of encrypted connections use. The keys protect nothing.
set -eu
cd "$(dirname "$0")"
days=36500
openssl ecparam -name prime256v1 -genkey -noout -out authority.key
openssl req -x509 -new -key authority.key -days $days -subj "/CN=leyden test authority" \
    -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign" -out authority.pem
openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt -out server.key
openssl req -new -key server.key -subj "/CN=localhost" -out server.csr
printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\nbasicConstraints=critical,CA:FALSE\n' >server.ext
openssl x509 -req -in server.csr -CA authority.pem -CAkey authority.key -CAcreateserial -days $days -extfile server.ext -out server.pem
rm -f authority.key authority.srl server.csr server.ext
