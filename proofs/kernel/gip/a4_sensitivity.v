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

Lemma zero_entry : nonzero 0 = false. Proof. unfold nonzero. destruct (Req_EM_T 0 0); congruence. Qed.
Lemma one_entry a : a <> 0 -> nonzero a = true. Proof. unfold nonzero. destruct (Req_EM_T a 0); congruence. Qed.
(* d = 2, K = 1: the sum of (1, 0) and (0, 1) has two *)
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. specialize (claim 2%nat 1%nat [[1; 0]; [0; 1]] ltac:(lia)).
  assert (h : (ones (support (sum 2 [[1%R; 0%R]; [0%R; 1%R]])) <= 1)%nat).
  { apply claim. apply Forall_cons; [|apply Forall_cons; [|constructor]]; (split; [reflexivity|]); unfold support, ones; cbn [map]; rewrite zero_entry, one_entry by lra; simpl; lia. }
  unfold support in h. cbv [sum fold_right add zip map zero repeat] in h. rewrite !one_entry in h by lra. unfold ones in h. simpl in h. lia.
Qed.
Lemma moves u v s : length u = length s -> length v = length s ->
  (distance (support (add u s)) (support (add v s)) <= ones (support u) + ones (support v))%nat.
Proof.
  revert v s; induction u as [|a u IH]; intros [|b v] [|c s] l l'; try discriminate; [simpl; lia|].
  injection l as l. injection l' as l'. specialize (IH v s l l'). unfold support, add, ones in *. cbn [zip map].
  cbn [distance count_occ].
  assert (q : nonzero a = false -> nonzero b = false -> nonzero (a + c) = nonzero (b + c)).
  { unfold nonzero at 1 2. destruct (Req_EM_T a 0), (Req_EM_T b 0); try discriminate. subst. reflexivity. }
  assert (r : forall x y, ((if Bool.eqb x y then 0 else 1) <= 1)%nat) by (intros [] []; simpl; lia).
  pose proof (r (nonzero (a + c)) (nonzero (b + c))). destruct (nonzero a), (nonzero b); simpl; try lia.
  rewrite q by reflexivity. rewrite Bool.eqb_reflx. lia.
Qed.
Theorem correction_holds : correction.
Proof.
  intros d K g g' gs [K0 Kd] F. pose proof (Forall_inv F) as [l k]. pose proof (Forall_inv (Forall_inv_tail F)) as [l' k'].
  pose proof (Forall_inv_tail (Forall_inv_tail F)) as F'.
  assert (ls : length (sum d gs) = d) by (apply length_sum; eapply Forall_impl; [|exact F']; unfold sparse; tauto).
  unfold sum in *. cbn [fold_right]. pose proof (moves g g' (fold_right add (zero d) gs) ltac:(congruence) ltac:(congruence)). lia.
Qed.
