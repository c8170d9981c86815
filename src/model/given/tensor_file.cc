#include "model/given/tensor_file.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "model/checkpoint/safetensors.h"
#include "tensor/pickle.h"

namespace saccade {
namespace {

// --- zip (PKWARE's APPNOTE 6.3.10), of which torch.save stores all entries as they are ---

struct ZipEntry {
  std::string_view name;
  std::string_view bytes;
};

std::uint64_t number(std::string_view bytes, std::size_t at, std::size_t width) {
  std::uint64_t value = 0;
  for (std::size_t i = width; i-- > 0;)
    value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

constexpr std::size_t kEndSize = 22;      // of the directory's end record
constexpr std::size_t kCentralSize = 46;  // of an entry in the directory, without its name
constexpr std::size_t kLocalSize = 30;    // of an entry's own header, likewise

tl::unexpected<Error> bad_zip(std::string_view why) {
  return fail(ErrorCode::kInvalid, "torch.save's zip is broken: {}", why);
}

// The end record: the last one, behind which is its comment and nothing else.
std::optional<std::size_t> find_end(std::string_view file) {
  const std::size_t at = file.rfind("PK\5\6");
  if (at == std::string_view::npos || file.size() - at < kEndSize) return std::nullopt;
  return at + kEndSize + number(file, at + 20, 2) == file.size() ? std::optional(at) : std::nullopt;
}

// The bytes of an entry: sizes from the directory, the place of its data from its own header.
Result<std::string_view> entry_bytes(std::string_view file, std::string_view record,
                                     std::string_view name) {
  if (number(record, 8, 2) & 1) return fail(ErrorCode::kUnsupported, "'{}' is encrypted", name);
  if (const auto method = number(record, 10, 2); method != 0)
    return fail(ErrorCode::kUnsupported,
                "'{}' of the zip is compressed (method {}); torch.save stores as it is", name,
                method);
  const std::uint64_t size = number(record, 24, 4);
  const std::uint64_t at = number(record, 42, 4);
  if (number(record, 20, 4) != size || at > file.size() || file.size() - at < kLocalSize ||
      file.substr(at, 4) != "PK\3\4")
    return bad_zip(fmt::format("the header of '{}' is not where it should be", name));
  const std::uint64_t begin = at + kLocalSize + number(file, at + 26, 2) + number(file, at + 28, 2);
  if (begin > file.size() || size > file.size() - begin)
    return bad_zip(fmt::format("'{}' ends behind the file", name));
  return file.substr(begin, size);
}

Result<std::vector<ZipEntry>> zip_entries(std::string_view file) {
  const auto end = find_end(file);
  if (!end) return bad_zip("it has no end record");
  constexpr std::size_t kMaxFiles = 256;
  const std::uint64_t count = number(file, *end + 10, 2);
  std::uint64_t at = number(file, *end + 16, 4);
  if (count > kMaxFiles)
    return fail(ErrorCode::kInvalid, "the zip has {} entries, at most {} are read", count,
                kMaxFiles);
  std::vector<ZipEntry> entries;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (at > *end || *end - at < kCentralSize || file.substr(at, 4) != "PK\1\2")
      return bad_zip(fmt::format("entry {} of its directory is not there", i));
    const std::string_view record = file.substr(at, kCentralSize);
    const std::uint64_t name_size = number(record, 28, 2);
    if (name_size > *end - at - kCentralSize) return bad_zip("a name leaves the directory");
    const std::string_view name = file.substr(at + kCentralSize, name_size);
    TRY(const std::string_view bytes, entry_bytes(file, record, name.substr(0, 80)));
    entries.push_back({name, bytes});
    at += kCentralSize + name_size + number(record, 30, 2) + number(record, 32, 2);
  }
  return entries;
}

// --- torch.save ---

struct Storage {
  std::string_view type;   // torch's class
  std::string_view dtype;  // safetensors' name
  std::size_t bytes;       // of an element
};
constexpr std::array kStorages = {
    Storage{"torch.FloatStorage", "F32", 4}, Storage{"torch.BFloat16Storage", "BF16", 2},
    Storage{"torch.HalfStorage", "F16", 2},  Storage{"torch.DoubleStorage", "F64", 8},
    Storage{"torch.LongStorage", "I64", 8},  Storage{"torch.IntStorage", "I32", 4},
};

bool is_torch_class(std::string_view name) {
  return name == "torch._utils._rebuild_tensor_v2" || name == "collections.OrderedDict" ||
         std::ranges::find(kStorages, name, &Storage::type) != kStorages.end();
}

constexpr PickleRules kRules{
    .knows_class = is_torch_class,
    .persistent_ids = true,
    .readable = "single tensors of float32, bfloat16, float16, float64, int64 and int32"};

// The tree that torch.save writes of one tensor; anything else is refused by what it is.
class SavedTensor {
 public:
  SavedTensor(const Pickle& pickle, std::span<const ZipEntry> entries, std::string_view folder)
      : pickle_(pickle), entries_(entries), folder_(folder) {}

  Result<FileTensor> read() const {
    // _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks)
    const PickleValue& root = pickle_.values[pickle_.root];
    if (root.kind != PickleValue::Kind::kObject || root.items.size() != 2 ||
        value(root.items[0]).text != "torch._utils._rebuild_tensor_v2")
      return fail(ErrorCode::kUnsupported, "torch.save was given something other than one tensor");
    const PickleValue& arguments = value(root.items[1]);
    if (arguments.items.size() != 6) return odd("the tensor has no six arguments");
    const PickleValue& persistent = value(arguments.items[0]);
    const PickleValue& offset = value(arguments.items[1]);
    if (persistent.kind != PickleValue::Kind::kPersistent || !is_count(offset))
      return odd("the tensor has no storage");
    FileTensor tensor;
    TRY(tensor.shape, counts(arguments.items[2], "size"));
    TRY(const std::vector<std::int64_t> stride, counts(arguments.items[3], "stride"));
    TRY(const std::int64_t elements, contiguous(tensor.shape, stride));
    TRY(const Storage storage, storage_of(value(persistent.items[0]), tensor.bytes));
    tensor.dtype = storage.dtype;
    const std::uint64_t first = static_cast<std::uint64_t>(offset.number);
    const std::uint64_t there = tensor.bytes.size() / storage.bytes;
    if (first > there || static_cast<std::uint64_t>(elements) > there - first)
      return odd(fmt::format("the tensor {} from element {} on leaves its storage of {}",
                             shape_text(tensor.shape), first, there));
    tensor.bytes = tensor.bytes.substr(first * storage.bytes,
                                       static_cast<std::uint64_t>(elements) * storage.bytes);
    return tensor;
  }

 private:
  static tl::unexpected<Error> odd(std::string_view why) {
    return fail(ErrorCode::kInvalid, "torch.save's pickle: {}", why);
  }
  const PickleValue& value(std::uint32_t index) const { return pickle_.values[index]; }
  static bool is_count(const PickleValue& of) {
    return of.kind == PickleValue::Kind::kInt && of.number >= 0;
  }

  Result<std::vector<std::int64_t>> counts(std::uint32_t index, std::string_view what) const {
    constexpr std::size_t kMaxExtents = 8;
    if (value(index).kind != PickleValue::Kind::kTuple || value(index).items.size() > kMaxExtents)
      return odd(fmt::format("the {} is no tuple of up to {} numbers", what, kMaxExtents));
    std::vector<std::int64_t> all;
    for (const std::uint32_t item : value(index).items) {
      if (!is_count(value(item))) return odd(fmt::format("the {} has a member that is none", what));
      all.push_back(value(item).number);
    }
    return all;
  }

  // How many elements; torch's strides of extents of one may be anything.
  static Result<std::int64_t> contiguous(std::span<const std::int64_t> shape,
                                         std::span<const std::int64_t> stride) {
    if (shape.size() != stride.size()) return odd("size and stride are of different lengths");
    std::int64_t elements = 1;
    for (std::size_t i = shape.size(); i-- > 0;) {
      if (shape[i] != 1 && elements != 0 && stride[i] != elements)
        return fail(ErrorCode::kUnsupported,
                    "the tensor {} is not contiguous (strides {}); .contiguous() before torch.save",
                    shape_text(shape), shape_text(stride));
      if (__builtin_mul_overflow(elements, shape[i], &elements))
        return odd(fmt::format("no memory holds a tensor {}", shape_text(shape)));
    }
    return elements;
  }

  // ("storage", class, key, device, elements)
  Result<Storage> storage_of(const PickleValue& id, std::string_view& bytes) const {
    if (id.kind != PickleValue::Kind::kTuple || id.items.size() != 5 ||
        value(id.items[0]).text != "storage")
      return odd("the storage is not described as torch describes one");
    const auto found = std::ranges::find(kStorages, value(id.items[1]).text, &Storage::type);
    if (found == kStorages.end()) return odd("the storage is of no type");
    const std::string name = folder_ + "data/" + value(id.items[2]).text;
    const auto entry = std::ranges::find(entries_, name, &ZipEntry::name);
    if (entry == entries_.end()) return odd(fmt::format("the zip has no {}", name.substr(0, 80)));
    bytes = entry->bytes;
    return *found;
  }

  const Pickle& pickle_;
  std::span<const ZipEntry> entries_;
  std::string folder_;
};

Result<FileTensor> read_torch(std::string_view file) {
  TRY(const std::vector<ZipEntry> entries, zip_entries(file));
  constexpr std::string_view kPickle = "data.pkl";
  const auto pickled = std::ranges::find_if(
      entries, [&](const ZipEntry& entry) { return entry.name.ends_with(kPickle); });
  if (pickled == entries.end())
    return fail(ErrorCode::kInvalid, "the zip has no data.pkl: torch.save did not write it");
  const std::string folder(pickled->name.substr(0, pickled->name.size() - kPickle.size()));
  const auto order = std::ranges::find(entries, folder + "byteorder", &ZipEntry::name);
  if (order != entries.end() && order->bytes != "little")
    return fail(ErrorCode::kUnsupported, "the tensor's byte order is not little");
  constexpr std::size_t kMaxPickle = 64 << 10;  // of one tensor it is some 160 bytes
  if (pickled->bytes.size() > kMaxPickle)
    return fail(ErrorCode::kTooLarge, "data.pkl has {} bytes, limit {}: one tensor is read",
                pickled->bytes.size(), kMaxPickle);
  TRY(const Pickle pickle, parse_pickle(pickled->bytes, kRules));
  return SavedTensor(pickle, entries, folder).read();
}

Result<std::vector<FileTensor>> read_safetensors(std::string_view file) {
  std::span<const std::byte> data;
  const auto bytes = std::as_bytes(std::span(file.data(), file.size()));
  auto header = parse_safetensors(bytes, &data);
  if (!header) return fail(ErrorCode::kInvalid, "safetensors: {}", header.error().message);
  std::vector<FileTensor> tensors;
  for (SafetensorsEntry& entry : header->tensors) {
    const auto of = data.subspan(entry.begin, entry.end - entry.begin);
    tensors.push_back({std::move(entry.name),
                       std::move(entry.dtype),
                       std::move(entry.shape),
                       {reinterpret_cast<const char*>(of.data()), of.size()}});
  }
  return tensors;
}

}  // namespace

Result<std::vector<FileTensor>> read_tensor_file(std::string_view file) {
  constexpr std::size_t kLengthBytes = 8;  // before a safetensors header
  if (file.starts_with("PK\3\4")) {
    TRY(FileTensor tensor, read_torch(file));
    std::vector<FileTensor> one;
    one.push_back(std::move(tensor));
    return one;
  }
  if (file.starts_with('\x80'))
    return fail(ErrorCode::kUnsupported,
                "a bare pickle is not read: torch.save of PyTorch 1.6 or later, without "
                "_use_new_zipfile_serialization=False, writes a zip");
  if (file.size() > kLengthBytes && file[kLengthBytes] == '{') return read_safetensors(file);
  return fail(ErrorCode::kInvalid, "{} bytes are neither torch.save's zip nor a safetensors file",
              file.size());
}

}  // namespace saccade
