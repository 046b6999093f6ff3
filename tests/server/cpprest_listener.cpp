// A service on the listener of cpprestsdk, which `mc2 serve` does not use. Only cpprest_listener_test.py needs it.
//   server_cpprest_listener PORT    answers every request on loopback until its standard input ends

#include <cpprest/http_listener.h>

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  namespace http = web::http;
  http::experimental::listener::http_listener listener("http://127.0.0.1:" + std::string(argv[1]));
  listener.support([](const http::http_request& request) {
    std::puts("a handler ran");
    std::fflush(stdout);
    request.reply(http::status_codes::OK);
  });
  listener.open().wait();
  std::puts("listening");
  std::fflush(stdout);
  while (std::getchar() != EOF) continue;
  listener.close().wait();
}
