// A self-signed certificate and its key in PEM files, for tests of TLS.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <filesystem>
#include <string>

namespace saccade::test {

struct Certificate {
  std::string certificate_path;
  std::string key_path;
};

// `names`: "DNS:localhost,IP:127.0.0.1". Written under `folder`. Valid from an hour ago for
// `valid_seconds` from now (negative: expired).
inline Certificate make_certificate(const std::filesystem::path& folder, const std::string& stem,
                                    const std::string& names, long valid_seconds = 3600) {
  std::filesystem::create_directories(folder);
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* certificate = X509_new();
  X509_set_version(certificate, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate), valid_seconds);
  X509_set_pubkey(certificate, key);
  X509_NAME* name = X509_get_subject_name(certificate);
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("saccade test"), -1, -1, 0);
  X509_set_issuer_name(certificate, name);
  X509_EXTENSION* extension =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, names.c_str());
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
  X509_sign(certificate, key, EVP_sha256());

  Certificate made{folder / (stem + ".crt"), folder / (stem + ".key")};
  std::FILE* file = std::fopen(made.certificate_path.c_str(), "wb");
  PEM_write_X509(file, certificate);
  std::fclose(file);
  file = std::fopen(made.key_path.c_str(), "wb");
  PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(file);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return made;
}

}  // namespace saccade::test
