// Pointers of the persistent forms.
#pragma once
#include "shop.hpp"

template <class T>
using ptr = everbyte::pointer_t<T, stock::shop>;
