// The compiled halves of Asio and Beast (see CMakeLists.txt): nothing of ours.
#include <boost/asio/impl/src.hpp>
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/beast/src.hpp>
