// Laid over gitleaks' own cmd/generate/secrets/regen.go by benchmarks/secret_anchors.py: made-up secrets are drawn by a
// seed that the pattern and how often it was asked for decide, so that every run measures on the same samples.

package secrets

import (
	"hash/fnv"
	"os"

	"github.com/lucasjones/reggen"
)

var asked = map[string]int64{}

func NewSecret(regex string) string {
	generator, err := reggen.NewGenerator(regex)
	if err != nil {
		panic(err)
	}
	seed := fnv.New64a()
	_, _ = seed.Write([]byte(os.Getenv("SAMPLE_SEED") + regex))
	asked[regex]++
	generator.SetSeed(int64(seed.Sum64()) + asked[regex])
	return generator.Generate(1)
}
