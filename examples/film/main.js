// A media pipeline: a script, its scenes side by side at a provider with two slots, and a stitch. Previews come while
// they are rendered; one webhook is lost, one forged, one answer lost, one scene fails at first.
// Run it: node examples/film/main.js
import { makeFilm } from "./film.js"

const { status, output, studio } = await makeFilm(console.log)
console.log(status, output)
console.log(`${studio.operations.size} operations, at most ${studio.mostAtOnce} at once`)
