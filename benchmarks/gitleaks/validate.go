// Laid over gitleaks' own cmd/generate/config/utils/validate.go by benchmarks/secret_anchors.py: where gitleaks checks
// the samples of its rules, this prints them, one JSON object a line, with what the rule finds in them.

package utils

import (
	"encoding/json"
	"os"
	"strings"

	"github.com/zricethezav/gitleaks/v8/cmd/generate/config/base"
	"github.com/zricethezav/gitleaks/v8/config"
	"github.com/zricethezav/gitleaks/v8/detect"
)

type sample struct {
	Rule    string   `json:"rule"`
	Text    string   `json:"text"`
	Secrets []string `json:"secrets"`
	Matches []string `json:"matches"`
}

func Validate(rule config.Rule, truePositives []string, _ []string) *config.Rule {
	for _, text := range truePositives {
		show(rule, "", text)
	}
	return &rule
}

func ValidateWithPaths(rule config.Rule, truePositives map[string]string, _ map[string]string) *config.Rule {
	for path, text := range truePositives {
		show(rule, path, text)
	}
	return &rule
}

func show(rule config.Rule, path string, text string) {
	all := base.CreateGlobalConfig()
	all.Rules = map[string]config.Rule{rule.RuleID: rule}
	all.Keywords = map[string]struct{}{}
	for place, keyword := range rule.Keywords {
		rule.Keywords[place] = strings.ToLower(keyword)
		all.Keywords[rule.Keywords[place]] = struct{}{}
	}
	found := sample{Rule: rule.RuleID, Text: text, Secrets: []string{}, Matches: []string{}}
	for _, finding := range detect.NewDetector(all).Detect(detect.Fragment{Raw: text, FilePath: path}) {
		found.Secrets = append(found.Secrets, finding.Secret)
		found.Matches = append(found.Matches, finding.Match)
	}
	_ = json.NewEncoder(os.Stdout).Encode(found)
}
