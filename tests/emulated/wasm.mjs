// Train with a model as WebAssembly; print every loss and what the trained model infers, as bits.
// Arguments: the module, a file of inputs and one of labels, and the numbers of bytes and items that the header names.
import { readFileSync } from "node:fs";

const [module, inputs, labels, stateBytes, arenaBytes, features, classes] = process.argv.slice(2);
const bytes = readFileSync(module);
const { exports } = await WebAssembly.instantiate(await WebAssembly.compile(bytes), {});
const memory = exports.memory;
let end = exports.__heap_base.value;
function place(size) {
  end = (end + 15) & ~15;
  const at = end;
  end += size;
  const missing = end - memory.buffer.byteLength;
  if (missing > 0) memory.grow(Math.ceil(missing / 65536));
  return at;
}
const state = place(+stateBytes), arena = place(+arenaBytes);
const x = place(4 * features), y = place(4), loss = place(4), result = place(4 * classes);
const at = (address, size) => new Uint8Array(memory.buffer, address, size);
const word = (address) => {
  const bits = new DataView(memory.buffer).getUint32(address, true);
  console.log(bits.toString(16).padStart(8, "0"));
};
at(state, +stateBytes).set(at(exports.net_initial.value, +stateBytes));
const xs = readFileSync(inputs), ys = readFileSync(labels);
for (let step = 0; step < ys.length / 4; step++) {
  at(x, 4 * features).set(xs.subarray(4 * features * step, 4 * features * (step + 1)));
  at(y, 4).set(ys.subarray(4 * step, 4 * step + 4));
  if (exports.net_train(state, x, y, loss, arena)) process.exit(1);
  word(loss);
}
at(x, 4 * features).set(xs.subarray(0, 4 * features));
if (exports.net_infer(state, x, result, arena)) process.exit(2);
for (let i = 0; i < classes; i++) word(result + 4 * i);
