(* gip.a4.sensitivity: Improving differentially-private deep learning with gradients index pruning (GIP), anonymous submission under double-blind review: Appendix A.4, text after Proposition 3.
   Each example's gradient is pruned to 1 % of its entries (K); then the index sensitivity is C_1 = 2K, as for index sets with K ones. *)
From kernel Require Import definitions lemmas.

Definition nonzero (a : R) : bool := if Req_EM_T a 0 then false else true.
Definition support (g : vec) : list bool := map nonzero g.
Definition sparse (d K : nat) (g : vec) : Prop := length g = d /\ (ones (support g) <= K)%nat.
(* what the mechanism of Theorem 1 needs: an index set with K ones (no more) of the sum over the batch *)
Definition printed : Prop := forall d K gs, (0 < K <= d)%nat -> Forall (sparse d K) gs -> (ones (support (sum d gs)) <= K)%nat.
(* the support of the sum moves in at most 2K places when one example is replaced *)
Definition correction : Prop := forall d K g g' gs, (0 < K <= d)%nat -> Forall (sparse d K) (g :: g' :: gs) ->
  (distance (support (sum d (g :: gs))) (support (sum d (g' :: gs))) <= 2 * K)%nat.
