/** How the tests of abuse judge what the event loop was used for. */
import { expect, it } from "vitest"
import { tooLong } from "./abuse/probed.ts"

const stretch = { pid: 1, calibration: 4 }

it("a long stretch is seen although a collection in it had to wait for the processor", () => {
  // The thread had the processor for a quarter of the time: 30 of the 120 ms that it used were the collection.
  const lines = [
    { ...stretch, used: 120, from: 1000, to: 1480 },
    { pid: 1, collected: 120, from: 1100 },
  ]
  expect(tooLong(lines)).toMatchObject([{ own: 90 }])
})

it("collections are no stretch of our code, with a processor to themselves or without", () => {
  for (const slower of [1, 4]) {
    const lines = [
      { ...stretch, used: 120, from: 1000, to: 1000 + 120 * slower },
      { pid: 1, collected: 60 * slower, from: 1010 },
      { pid: 1, collected: 20 * slower, from: 1010 + 70 * slower },
      // After the stretch.
      { pid: 1, collected: 500, from: 1000 + 120 * slower },
    ]
    expect(tooLong(lines)).toEqual([])
    expect(tooLong(lines.slice(0, 2))).toMatchObject([{ own: 60 }])
  }
})
