package resolver

import (
	"context"

	"github.com/tallygate/tallygate/graph/generated"
)

// Public settings of the installation.

func (r *queryResolver) Installation(ctx context.Context) (*generated.Installation, error) {
	open, err := r.auth.SignUpsOpen(ctx)
	return &generated.Installation{SignUps: open, SendsMail: r.auth.SendsMail()}, err
}
