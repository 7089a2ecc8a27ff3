//! Explanation for people: what is inside, and how to verify it with common tools.

use crate::contents::Contents;

/// Returns the text.
pub(crate) fn text(contents: &Contents, key: &str) -> String {
    let models: String = contents.models.iter().map(|model| format!("  {}\n", model.name)).collect();
    TEXT.replace("@MODELS@", &models).replace("@KEY@", key)
}

const TEXT: &str = r#"A bundle of leyden: a program that runs language models and encoders on CPUs, and these models:

@MODELS@
bin/            the program
models/         the models, a folder for each
evidence/       signed verdicts of leyden verify, and calibrations
licences/       licences of the program, of the code in it, and of the models
sbom.cdx.json   all components with versions, licences and SHA-256 (CycloneDX)
bundle.json     names of the models
SHA256SUMS      checksums of all files but bundle.sig and itself
bundle.sig      signature: DSSE envelope with an in-toto statement, as in OpenSSF Model Signing
key.pem         public key of the signature

VERIFY IT FIRST

Until the bundle is verified, run nothing that is in it: a changed program could call any bundle good. These commands need
sh, tar, sed, grep, the coreutils and openssl 3. Unpack the bundle into a new folder, and go there:

  mkdir bundle && tar -xf FILE -C bundle && cd bundle

1. The key. Compare this output with the key that the sender told you by another way (by phone, on paper). The sender sees
   it at the end of `leyden bundle`:

  openssl pkey -pubin -in key.pem -outform DER | tail -c 32 | od -An -v -tx1 | tr -d ' \n'; echo

   The key of this bundle is @KEY@. Compare it with the sender: a forged bundle could name another key here.

2. The signature: "Signature Verified Successfully".

  sed -n 's/.*"payload":"\([^"]*\)".*/\1/p' bundle.sig | base64 -d > ../statement.json
  sed -n 's/.*"sig":"\([^"]*\)".*/\1/p' bundle.sig | base64 -d > ../signature
  { printf 'DSSEv1 28 application/vnd.in-toto+json %s ' "$(wc -c < ../statement.json)"; cat ../statement.json; } > ../signed
  openssl pkeyutl -verify -pubin -inkey key.pem -rawin -in ../signed -sigfile ../signature

3. The list of checksums is the signed one: "1".

  grep -c "\"digest\":\"$(sha256sum < SHA256SUMS | cut -d ' ' -f 1)\",\"name\":\"SHA256SUMS\"" ../statement.json

4. The files are those of the list: no line but "OK", and nothing missing.

  sha256sum --strict -c SHA256SUMS

5. Nothing else is there: no output.

  find . ! -type d ! -type f; find . -type f ! -name SHA256SUMS ! -name bundle.sig | sed 's|^\./||' | sort > ../found
  cut -c 67- SHA256SUMS | sort | comm -3 - ../found

THEN INSTALL IT

  bin/leyden bundle install FILE --key KEY
  leyden run MODEL

where KEY is the key of step 1. It verifies everything again, and uses no network. `leyden bundle verify FILE --key KEY` verifies
alone, and is enough on a machine that has a verified program.
"#;
