import { describe, expect, it } from "vitest"
import { compileTemplate } from "../../src/template/index.ts"

/** `name`, its path, and `*` where the rest is computed. */
const references = (source: string): string[] =>
  compileTemplate(source).references.map(({ name, path, computed }) =>
    [name, ...path, ...(computed ? ["*"] : [])].join("/"),
  )

describe("J11 references are found when a template is compiled", () => {
  it.each([
    ["{{ a }}", ["a"]],
    ["{{ a.b.c[0]['d'].e }}", ["a/b/c/0/d/e"]],
    ["{{ a[-1] }}", ["a/-1"]],
    ['{{ nodes["x-y"].z }}', ["nodes/x-y/z"]],
    ["{{ nodes[input.which].x }}", ["input/which", "nodes/*"]],
    ["{{ a[b][c.d].e }}", ["c/d", "b", "a/*"]],
    ["{{ a.b[1:n] }}", ["a/b", "n"]],
    ["{{ a.items() }}", ["a"]],
    ["{{ (a or b).c }}", ["a", "b"]],
    ["{{ a | default(b.c) }}", ["a", "b/c"]],
    ["{{ a is defined }}", ["a"]],
    ["{{ xs | map('default', d) | join(s, attribute=t) }}", ["xs", "d", "s", "t"]],
    ["{{ {k: v, 'x': [w]} }}", ["k", "v", "w"]],
    ["{{ dict(a=b) }}", ["b"]],
    ["{{ range(n) }}", ["n"]],
    ["{{ range.x }}", ["range/x"]],
    [
      "{% for x in xs if x > y %}{{ x }}{{ loop.index }}{{ z }}{% else %}{{ x }}{% endfor %}{{ x }}{{ loop }}",
      ["xs", "y", "z", "x", "x", "loop"],
    ],
    ["{% for k, (v, w) in m.items() %}{{ k }}{{ v }}{{ w }}{% endfor %}", ["m"]],
    ["{% set x = x + 1 %}{{ x }}", ["x"]],
    ["{% set x %}{{ y }}{% set z = 1 %}{% endset %}{{ x }}{{ z }}", ["y", "z"]],
    ["{% if c %}{% set x = 1 %}{% endif %}{{ x }}", ["c", "x"]],
    ["{% if c %}{% set x = 1 %}{% else %}{% set x = 2 %}{% endif %}{{ x }}", ["c"]],
    ["{% if c %}{% set x = 1 %}{% elif d %}{% else %}{% set x = 2 %}{% endif %}{{ x }}", ["c", "d", "x"]],
    ["{% for i in [1] %}{% set x = i %}{% endfor %}{{ x }}", ["x"]],
    ["{% set ns = namespace(a=b) %}{% set ns.a = ns.a + c %}", ["b", "c"]],
    ["{# {{ a }} #}{% raw %}{{ b }}{% endraw %}", []],
  ])("%s", (source, expected) => {
    expect(references(source)).toEqual(expected)
  })

  it("carry their offset", () => {
    expect(compileTemplate("text {{ a.b }} {{ c }}").references.map(({ offset }) => offset)).toEqual([8, 18])
  })
})
