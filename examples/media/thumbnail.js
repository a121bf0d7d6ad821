// Reads a picture from the artifacts, makes it small, and stores the result. In a thread: it keeps a processor busy.
import { defineHandler } from "umbra"
import { decodePng, encodePng } from "./png.js"

export const thumbnail = defineHandler({
  name: "thumbnail",
  thread: import.meta.url,
  async run({ motif, picture, width }, ctx) {
    const content = await ctx.artifacts.get(picture)
    const small = shrunk(decodePng(await content.buffer()), width)
    const stored = await ctx.artifacts.put(`${motif}-small.png`, encodePng(small), { type: "image/png" })
    return { motif, picture, small: stored }
  },
})

/** Every pixel of the small picture is the average of a block. */
function shrunk(picture, width) {
  const block = picture.width / width
  // Characters are twice as high as they are wide.
  const height = Math.round(picture.height / block / 2)
  const pixels = Buffer.alloc(3 * width * height)
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++)
      for (let color = 0; color < 3; color++)
        pixels[3 * (y * width + x) + color] = average(picture, {
          x: x * block,
          y: y * 2 * block,
          block,
          color,
        })
  return { width, height, pixels }
}

function average({ width, height, pixels }, { x, y, block, color }) {
  let sum = 0
  let count = 0
  for (let row = Math.floor(y); row < Math.min(height, y + 2 * block); row++)
    for (let column = Math.floor(x); column < Math.min(width, x + block); column++) {
      sum += pixels[3 * (row * width + column) + color]
      count++
    }
  return Math.round(sum / count)
}
